"""The methods by name, in the order of the paper's tables. Reading the names imports nothing: torch takes seconds."""

BUILT_IN = (
    ("source-only", "methods.source_only", "SourceOnly"),
    ("dan", "methods.dan", "DAN"),
    ("dann", "methods.dann", "DANN"),
    ("coral", "methods.coral", "CORAL"),
    ("adda", "methods.adda", "ADDA"),
    ("mcd", "methods.mcd", "MCD"),
    ("jan", "methods.jan", "JAN"),
    ("rtn", "methods.rtn", "RTN"),
    ("mdan", "methods.mdan", "MDAN"),
    ("mdda", "methods.mdda", "MDDA"),
    ("dctn", "methods.dctn", "DCTN"),
    ("m3sda", "methods.m3sda", "M3SDA"),
    ("tsvdnet", "tsvdnet.method", "TSVDNet"),
    # left out of the paper's tables
    ("ltc-msda", "methods.ltc_msda", "LtCMSDA"),
    ("simpal", "methods.simpal", "SImpAl"),
    ("mcc", "methods.mcc", "MCC"),
    ("cdan", "methods.cdan", "CDAN"),
)


def is_built_in(name: str) -> bool:
    """Is it one of these? No file and no installed package can take such a name."""
    return any(name == known for known, _, _ in BUILT_IN)
