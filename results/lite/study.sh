#!/usr/bin/env bash
# The lite study, block by block, on two cores. Every block can be stopped and called again; what is done is not done twice.
#   bash results/lite/study.sh DATA_ROOT [block …]      blocks: 0 a b c d e f m l; without any: all, in this order
# Then: python -m benchmark publish lite --results runs/lite --artifacts tsvdnet@mm
#       python -m benchmark publish others --results runs/others                  (block d)
#       python -m benchmark publish mdda-stages --results runs/mdda-stages        (block m)
#       python -m benchmark publish long --results runs/long                      (block l)
set -euo pipefail
data=${1:?"Which data? Type: bash results/lite/study.sh DATA_ROOT"}
shift
blocks=${*:-0 a b c d e f m l}
here=$(cd "$(dirname "$0")" && pwd)
python=${PYTHON:-.venv/bin/python}
tuned=$here/tuned-digits-lite-up.toml
card=source-only,dan,dann,mcd,m3sda,mdda,tsvdnet
export OMP_NUM_THREADS=1

# one-eighth width and 600 updates in place of a quarter and 1,500: what two cores do in a few hours
small=(--tier lite --data-root "$data" --workers 2 --set run.network.width=0.125)
digits() { "$python" -m benchmark run --suite digits "${small[@]}" --set run.updates=$updates --tuned "$tuned" --results "$runs" "$@"; }
# the trainable end of EfficientNet-Lite0 does some four updates a second on one core: 40 in place of 1,500
frozen() {
    "$python" -m benchmark run --suite pacs-frozen --tier lite --data-root "$data" --workers 2 --results "$runs" \
        --set run.updates=40 --set run.eval_points=2 "$@"
}

for block in $blocks; do
    echo "== block $block"
    runs=runs/lite updates=600
    case $block in
    0) "$python" -m benchmark tune --suite digits "${small[@]}" --set run.updates=500 --target up --trials 8 \
        --methods $card --results runs/tuning --output "$tuned" ;;
    a) for seed in 0 1 2; do digits --methods $card,source-only:bn,tsvdnet:code,upper-bound --seeds $seed; done
       digits --methods source-only,source-only:bn,tsvdnet,${BEST:-mcd} --seeds 3-4 ;;
    b) digits --methods source-only,source-only:bn,tsvdnet:e,tsvdnet:et,tsvdnet --seeds 0-2 ;;
    c) digits --targets mm,sv --seeds 0-2 --methods tsvdnet:paper,tsvdnet:code,tsvdnet:active,tsvdnet:no-rotation,tsvdnet:tnn
       digits --targets mm,sv --seeds 0-4 --methods tsvdnet:active
       digits --targets mm,sv --seeds 0-4 --methods tsvdnet --set tsvdnet.prox=zero  # A = 0 anyway: equals tsvdnet bit for bit
       for choice in normalise=never pseudo=probability gate=false normalise=training entropy=all prototype_loss=true \
           source_loss=sum uncertainty=exact,commented,printed entropy_mean=samples sigma_link=exp,raw sigma_floor=0.01 \
           distance=sum alpha=0.9 entropy_weight=0.1 single_lr=true extra_linear=true \
           prox=code,exact repeat_top=true aux_every=16 a_init=random; do  # the last five act through A alone
           digits --targets mm,sv --seeds 0-2 --methods tsvdnet --set tsvdnet.$choice
       done ;;
    d) "$python" -m benchmark run --suite digits "${small[@]}" --set run.updates=600 --results runs/others --seeds 0 \
        --methods source-only,source-only:bn,coral,adda,jan,rtn,mdan,dctn ;;  # nobody tuned the six, so nobody is tuned here
    e) frozen --methods $card,source-only:bn --seeds 0-2
       frozen --methods tsvdnet --targets A,S --seeds 0-2 --set tsvdnet.unit_scale=16  # why T-SVDNet is low here
       frozen --methods source-only --standards single-best --seeds 0-2 ;;             # why MDDA is
    f) for method in source-only dan dann; do digits --standards single-best --methods $method --seeds 0; done ;;
    m) runs=runs/mdda-stages  # why MDDA is low on sv and syn, and on PACS: its three stages with a whole budget each
       digits --methods mdda --targets sv,syn --seeds 0-2 --stage-budget full
       frozen --methods mdda --seeds 0-2 --stage-budget full ;;
    l) runs=runs/long updates=1500  # does the tier's own budget change the order of the rows?
       digits --methods source-only:bn,tsvdnet:e,tsvdnet --targets mm,sv --seeds 0-2
       frozen --methods source-only:bn,tsvdnet --targets S --seeds 0-2 --set run.updates=200 --set run.eval_points=5 ;;
    *) echo "There is no block $block; there are 0 a b c d e f m l."; exit 2 ;;
    esac
done
