from grade import grade


def test_grade_of_ninety():
    assert grade(90) == "A"


def test_grade_of_seventy():
    assert grade(70) == "C"


def test_grade_of_zero():
    assert grade(0) == "F"
