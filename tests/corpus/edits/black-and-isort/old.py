import sys, os
import pytest
from envfile import load, EnvError

GOOD = 'A=1\nB="two words"\n'

def test_load(tmp_path):
    f = tmp_path/'.env'; f.write_text(GOOD)
    assert load(f) == {'A':'1','B':'two words'}

def test_load_does_not_touch_environ(tmp_path):
    before = dict(os.environ)
    f = tmp_path/'.env'; f.write_text(GOOD)
    load(f)
    assert dict(os.environ)==before and sys.modules

def test_bad_line(tmp_path):
    f = tmp_path/'.env'; f.write_text('A=1\n=2\n')
    with pytest.raises(EnvError, match='line 2'): load(f)
