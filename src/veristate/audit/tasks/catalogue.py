"""Which files each task reads, who published them and under which licence.

"not stated" after a licence means that the copy these digests were taken from carried none.
"""

from veristate.audit.tasks.sources import DataFile, Packaged

CORPUS = DataFile(
    name="scifact/corpus.jsonl",
    licence="ODC-By 1.0",
    obtain="it is in the SciFact release of the Allen Institute for AI, and in BEIR's SciFact",
    content="bccb659d55c2df5a183a5e6ab1bc6bd4fd69f267a41202957d302644c46b0f87",
)
CLAIMS = DataFile(
    name="scifact/claims_dev.jsonl",
    licence="CC BY 4.0",
    obtain="it is in the SciFact release of the Allen Institute for AI",
    content="fd131543da3bd16d2495085d7f2872496fbd5cf31434f9bb018e09cc16522b76",
)
JUDGEMENTS = DataFile(
    name="scifact/beir_qrels_test.tsv",
    also=("scifact/qrels/test.tsv",),
    licence="not stated; from the CC BY 4.0 claims",
    obtain="it is qrels/test.tsv of BEIR's SciFact",
    content="68c0ac63f1c24b9e8ce497649694f09b2d0850bab7ec2b103cc66996f5f8b3a3",
    header="query-id",
)
NCI = DataFile(
    name="chem/nci_first_5K.smi",
    also=("chem/first_5K.smi",),
    licence="BSD-3-Clause (RDKit)",
    obtain="RDKit ships it as Data/NCI/first_5K.smi: pip install 'veristate[chem]'",
    content="91e71c015f14939837f2943dcc904f7c87e5a3a0124d82b05c28ad2f23004def",
    packaged=Packaged(distribution="rdkit", module="rdkit", path="Data/NCI/first_5K.smi"),
)
COMPOUNDS = DataFile(
    name="chem/CHEMBL2321810.smi",
    licence="BSD-3-Clause (RDKit); ChEMBL data CC BY-SA 3.0",
    obtain="RDKit ships it in Contrib/FreeWilson/data: pip install 'veristate[chem]'",
    content="3feff3aa19f16c7a3aa8695acddd442d1fb3d582485bb7fe8754e7b36dc1894f",
    packaged=Packaged(distribution="rdkit", module="rdkit", path="Contrib/FreeWilson/data/CHEMBL2321810.smi"),
)
ACTIVITIES = DataFile(
    name="chem/CHEMBL2321810_act.csv",
    licence="BSD-3-Clause (RDKit); ChEMBL data CC BY-SA 3.0",
    obtain="RDKit ships it in Contrib/FreeWilson/data: pip install 'veristate[chem]'",
    content="e74db717fa4704befa07eb41ad4845fa437bf3c12eb2b6a854576dbd2e8819fa",
    packaged=Packaged(distribution="rdkit", module="rdkit", path="Contrib/FreeWilson/data/CHEMBL2321810_act.csv"),
    header="Name,Act",
)
BLOCKERS = DataFile(
    name="herg/cardiotox_train_validation.csv",
    licence="CC0 (data of a CC BY 4.0 article)",
    obtain="it is CardioTox's training and validation table (Karim et al. 2021) with columns id, smiles, label and "
    "ids K0, K1, ... in the table's order",
    content="6f0b418e969688d541dad9baaa35779464693062821b9cd9d3e88c5d56bce8da",
    header="id,",
)
_MEMBER_DIGESTS = (
    "9a5fb298a6564e8ef739890c90b02e831521073f49eefd2310fb56cdb61a2378",
    "2bf047553eef397060af376e78dd4e990114df8428e05f734c4e4aca284280ca",
    "0e9d7eb3ff0b53bd2f20e43a75e0872c682b0ee27059dd50735c416d97a3fd24",
    "4b35cb5686f23c6e3e5a4c587a5c4dd79b7f1f46be26684260c0b78366145d58",
    "9fdac559e3058b5f7b03780f9c696223d27adb94c78f9eb9aba6154e2dbff492",
)
MEMBERS = tuple(
    DataFile(
        name=f"herg/model_{number}.pt",
        licence="MIT (admet-ai)",
        obtain="admet-ai ships it: pip install 'veristate[chem]'",
        content=content,
        packaged=Packaged(
            distribution="admet-ai",
            module="admet_ai",
            path=f"resources/models/admet_classification/model_{number}.pt",
        ),
    )
    for number, content in enumerate(_MEMBER_DIGESTS)
)
CYTOLOGY = DataFile(
    name="bio/breast_cancer.csv",
    licence="BSD-3-Clause (scikit-learn); UCI data CC BY 4.0",
    obtain="scikit-learn ships it: pip install 'veristate[audit]'",
    content="fed3eb72d0575ef6192293f5093c6e801b1476b577d0386bf4455504522172ed",
    packaged=Packaged(distribution="scikit-learn", module="sklearn", path="datasets/data/breast_cancer.csv"),
    header="569,30,",
)
DIGITS = DataFile(
    name="images/digits.csv",
    licence="BSD-3-Clause (scikit-learn); UCI data CC BY 4.0",
    obtain="scikit-learn ships it: pip install 'veristate[audit]'",
    content="6ebb3d2fee246a4e99363262ddf8a00a3c41bee6014c373ed9d9216ba7f651b8",
    packaged=Packaged(distribution="scikit-learn", module="sklearn", path="datasets/data/digits.csv.gz"),
)
SPLICE = DataFile(
    name="bio/uci_splice.csv",
    also=("bio/splice.data",),
    licence="not stated; UCI lists CC BY 4.0",
    obtain="it is the UCI set Molecular Biology (Splice-junction Gene Sequences), splice.data",
    content="1e99f39128c82285108e4e95dea8a547bb3883f45c47163cc338fc3a4d6e8748",
    header="class,",
)
CELLS = DataFile(
    name="bio/pbmc68k_reduced.npz",
    licence="BSD-3-Clause (scanpy); 10x Genomics data terms not stated",
    obtain="it is scanpy's 10x_pbmc68k_reduced data set saved as npz with X, barcodes, louvain and louvain_names",
    content="d21770aa73266bb59e8125cfbc1e7e4f8f121a2ea7843bb881c67205d87a9052",
    array="X",
)
SOLUBILITY = DataFile(
    name="chem/esol_delaney_processed.csv",
    also=("chem/delaney-processed.csv",),
    licence="not stated; MoleculeNet is MIT",
    obtain="it is MoleculeNet's delaney-processed.csv (ESOL)",
    content="8c06a76f0c6487d29ab0f903e6a7a7139f189ab3c1178f159c8be8964602f189",
    header="Compound ID",
)
VARIANTS = DataFile(
    name="bio/gb1_four_mutations.npz",
    licence="CC BY 4.0; splits AFL-3.0 (FLIP)",
    obtain="it is FLIP's GB1 table of four mutations (Wu et al. 2016) saved as npz with variant, alphabet, fitness and "
    "split_three_vs_rest",
    content="7e9275b14dc1f959b4631ffe81671a3010a291e54ee8eddbde698b9729dce59d",
    array="variant",
)
SUPERCONDUCTORS = DataFile(
    name="materials/supercon_stanev2018.csv",
    also=("materials/Supercon_data.csv",),
    licence="not stated",
    obtain="it is Supercon_data.csv of Stanev et al. 2018, from the SuperCon database",
    content="c74c477d698f721a9330bbf1692d2845180558e542bb2d0d4c930a49688677b8",
    header="name,Tc",
)

# In the order in which they are listed. A task's module in this package bears its name.
FILES: dict[str, tuple[DataFile, ...]] = {
    "scifact": (CORPUS, CLAIMS, JUDGEMENTS),
    "nci": (NCI,),
    "activity": (COMPOUNDS, ACTIVITIES),
    "herg": (BLOCKERS, *MEMBERS),
    "wdbc": (CYTOLOGY,),
    "digits": (DIGITS,),
    "splice": (SPLICE,),
    "pbmc": (CELLS,),
    "esol": (SOLUBILITY,),
    "gb1": (VARIANTS,),
    "superconductors": (SUPERCONDUCTORS,),
}
