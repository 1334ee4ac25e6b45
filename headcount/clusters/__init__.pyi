from .grouping import cluster as cluster
from .result import ClusterOptions as ClusterOptions
from .result import Clusters as Clusters
from .result import ClustersRecord as ClustersRecord
from .result import HeadPlace as HeadPlace
from .result import LayerTest as LayerTest
