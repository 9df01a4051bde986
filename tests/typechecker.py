"""How pytest checks every annotation of helpers/ at run time: beartype, which here takes an int for a float."""

from beartype import BeartypeConf, beartype

check = beartype(conf=BeartypeConf(is_pep484_tower=True))
