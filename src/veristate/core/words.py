"""Words that several rooms and the command share: the choices a run is asked with."""

from typing import Literal

Dtype = Literal["fp32", "bf16"]
PolicyName = Literal["full", "r1", "r1m"]
ContractName = Literal["exact", "device", "rounded", "integer"]
StrategyName = Literal["auto", "probes", "memo", "full"]
Recovery = Literal["hold", "replace", "restore"]
