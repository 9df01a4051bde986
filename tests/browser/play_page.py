"""What the tests of the play page share: its packed models, and the processor time that a page
takes.
"""

from tools import play

PACKED = sorted(play.PACKED.glob("step-*.gz"))


def cpu(page) -> float:
    """Seconds of processor time that the page's own thread has taken so far: other programs don't
    count.
    """
    return {
        metric["name"]: metric["value"]
        for metric in page.devtools.send("Performance.getMetrics")["metrics"]
    }["TaskDuration"]


def clocked(page):
    page.devtools = page.context.new_cdp_session(page)
    page.devtools.send("Performance.enable", {"timeDomain": "threadTicks"})
    return page
