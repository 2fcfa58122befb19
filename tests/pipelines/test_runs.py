"""Projects of Spark Declarative Pipelines as they are, kept incrementally."""

from __future__ import annotations

import pytest
from viewkeep import pipelines
import time
pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("spark")]


def test_try(shop, spark, project):
    import sys
    t=time.time()
    done = pipelines.dry_run(shop, project)
    print("DRY", time.time()-t); t=time.time()
    for o in done.outcomes:
        print(o.view, o.action, o.error, o.sql)
    done = pipelines.run(shop, project)
    print("RUN", time.time()-t); t=time.time()
    shop.sql("UPDATE lines SET price = 31 WHERE order_id = 10 AND line = 1")
    again = pipelines.run(shop, project)
    print("AGAIN", time.time()-t); t=time.time()
    for o in again.outcomes:
        print(o.view, o.action, o.refresh)
    assert 0
