from .groups import check_cache_plan as check_cache_plan
from .groups import check_can_stream as check_can_stream
from .groups import plan_for_cache as plan_for_cache
from .groups import streamable as streamable
from .masks import streaming_masks as streaming_masks
from .plan import CachePlan as CachePlan
from .plan import Group as Group
