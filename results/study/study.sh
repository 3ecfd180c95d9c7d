#!/usr/bin/env bash
# The study, block by block, on two cores. Every block can be stopped and called again; what is done is not done twice.
#   bash results/study/study.sh DATA_ROOT [block …]      blocks: a b c m d f u e g; without any: all, in this order
# Real images, published values, untuned; every evaluation point scored with both statistics at test.
# From a clone of its own at commit 2c9373b (ten runs are of c9e8816; four that were made at both have the same bits):
#   git checkout 2c9373b && python -m benchmark unpack MAIN/results/study --out runs/study
# Then: python -m benchmark publish study --results runs/study
set -euo pipefail
data=${1:?"Which data? Type: bash results/study/study.sh DATA_ROOT"}
shift
blocks=${*:-a b c m d f u e g}
python=${PYTHON:-.venv/bin/python}
runs=${RUNS:-runs/study}
export OMP_NUM_THREADS=1
export GLIBC_TUNABLES=glibc.malloc.hugetlb=1  # large pages: up to 4 % faster, the same bits

run() { nice -n 19 "$python" -m benchmark run --data-root "$data" --results "$runs" "$@"; }
digits() { run --suite digits --tier lite --workers 2 "$@"; }
# the trainable end of EfficientNet-Lite0 at a budget at which T-SVDNet gives pseudo labels
frozen() { run --suite pacs-frozen --workers 2 --set run.updates=400 --set run.eval_points=5 "$@"; }

for block in $blocks; do
    echo "== block $block"
    case $block in
    # the released log at the paper's own scale: 11 epochs of 233 updates, scored after each; then without the tensor term.
    # 1.7 s an update on two cores with nothing beside it, 80 minutes a run
    a) log=(--suite digits --tier paper --targets mm --threads 2 --workers 1 --set run.updates=2563 --set run.eval_points=11
            --methods tsvdnet:code --set tsvdnet:code.eta_schedule=released --set tsvdnet:code.aux_restart=233)
       run "${log[@]}"
       run "${log[@]}" --set tsvdnet:code.tensor=off ;;
    # Table 4 in the release's weights, then the paper's reading; a seed at a time, so that what there is can be compared
    b) for seed in 0 1 2; do
           digits --methods source-only,source-only:bn,tsvdnet:code-e,tsvdnet:code-p,tsvdnet:code,tsvdnet:code-u --seeds $seed
       done
       for seed in 0 1 2; do digits --methods tsvdnet --seeds $seed; done
       digits --methods upper-bound --seeds 0 ;;
    # the rivals
    c) for seed in 0 1 2; do digits --methods dan,dann,mcd,m3sda,mdda --seeds $seed; done ;;
    # what looked wrong. DAN and DANN lose with statistics of the target, which all rows of multi-source but MDDA win by: Source-Only
    # of their block, which normalises the sources together. MDDA is low on → mm: a whole budget for each of its three stages
    m) digits --methods mdda --targets mm --seeds 0-2 --stage-budget full
       for seed in 0 1 2; do digits --methods source-only --standards combined --seeds $seed; done ;;
    # a low-rank term that is there. λ at 1/32 of the largest that leaves A ≠ 0 (the bound: 500 under the released rule), which
    # leaves frequency 0 alone, and one so small that something is left at every frequency; then 1/8 and 1/2; then A = 0 by decree
    d) changed() { digits --targets mm,sv --methods tsvdnet:code "$@"; }
       for seed in 0 1 2; do
           changed --seeds $seed --set tsvdnet:code.lam=15.625
           changed --seeds $seed --set tsvdnet:code.lam_rule=active
       done
       for seed in 0 1 2; do changed --seeds $seed --set tsvdnet:code.lam=62.5,250; done
       changed --seeds 0-2 --set tsvdnet:code.prox=zero ;;
    # what decides → up: the official USPS pictures fill their frame, those of Digits-Five are of another make. USPS within the
    # margin that MNIST has, apart from the other runs: python -m benchmark publish framed --results runs/framed
    u) "$python" "$(dirname "$0")/framed.py" "$data" runs/framed-data
       for seed in 0 1 2; do
           data=runs/framed-data runs=runs/framed digits --targets up --seeds $seed \
               --methods source-only,dann,rtn,m3sda,tsvdnet:code-p,tsvdnet:code
       done ;;
    # first what the tensor term is worth there
    e) for seed in 0 1 2; do frozen --methods source-only,tsvdnet:code-p,tsvdnet:code --seeds $seed; done
       for seed in 0 1 2; do frozen --methods source-only:bn,tsvdnet:code-e,tsvdnet:code-u,tsvdnet --seeds $seed; done
       for seed in 0 1 2; do frozen --methods dan,dann,mcd,m3sda,mdda --seeds $seed; done
       frozen --methods upper-bound --seeds 0 ;;
    # the other six of the paper's tables, one seed
    f) digits --methods coral,adda,jan,rtn,mdan,dctn --seeds 0
       # the two of them that were above the release there
       for seed in 1 2; do digits --methods rtn,dctn --seeds $seed; done
       # JAN lies under Source-Only: with the estimator of its release
       digits --methods jan:unbiased --seeds 0 ;;
    # what the paper left out; AdaBN needs no run: it is Source-Only of block b, read with statistics of the target
    g) for seed in 0 1 2; do digits --methods ltc-msda,ltc-msda:code,simpal,mcc,cdan,cdan:e --seeds $seed; done ;;
    *) echo "There is no block $block; there are a b c m d f u e g."; exit 2 ;;
    esac
done
