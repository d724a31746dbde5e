import pytest


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    outcome = yield
    report = outcome.get_result()
    setattr(item, "report_" + report.when, report)


def pytest_terminal_summary(terminalreporter):
    for report in terminalreporter.stats.get("passed", []):
        terminalreporter.write_line(f"{report.nodeid} {report.duration:.2f}")


@pytest.fixture
def page(browser):
    return browser.new_page()
