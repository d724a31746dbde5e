import pytest


@pytest.fixture
def page(browser):
    return browser.new_page()
