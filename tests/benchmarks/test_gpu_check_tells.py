"""What a fault of the proof tells must be enough to mend it when the machine is gone."""

import pytest

from gpu_check_parts.comparing import same_answers
from gpu_check_parts.compiled import Compiled
from gpu_check_parts.figures import first_line, milliseconds, per_second


def test_a_wrong_answer_is_told_with_its_place_and_tokens():
    right = same_answers("float32", [[1, 2], [3]], [[1, 2], [3]])
    assert (right.name, right.is_ok) == ("float32", True)
    wrong = same_answers("float32", [[1, 2], [3, 4, 9]], [[1, 2], [3, 5, 9]])
    assert not wrong.is_ok
    assert wrong.name == (
        "float32: wrong is answer 2 of 2 from token 2 of 3 on, [4, 9] in place of [5, 9]"
    )
    assert "from token 3 of 3" in same_answers("", [[1, 2]], [[1, 2, 3]]).name
    with pytest.raises(ValueError, match="longer"):
        same_answers("", [], [[1]])


def test_a_fault_is_told_with_its_way():
    try:
        same_answers("", [], [[1]])
    except ValueError as error:
        told = first_line(error)
    assert told.startswith("ValueError: zip() argument 2")
    assert "(comparing.py:" in told and "< test_gpu_check_tells.py:" in told


def test_figures_of_times_and_of_rates_have_their_lower_quartile_first():
    seconds = [1.0, 2.0, 4.0]
    slow = milliseconds("a step", seconds, note="here")
    assert (slow.unit, slow.low, slow.median, slow.high) == ("ms", 1500, 2000, 3000)
    fast = per_second("tokens", "tok/s", 6, seconds, beside={"theirs": 1.0})
    assert (fast.unit, fast.low, fast.median, fast.high) == ("tok/s", 2, 3, 4)
    assert (slow.note, fast.beside, fast.runs) == ("here", {"theirs": 1.0}, 3)


def test_what_was_compiled_is_told_by_name_and_types():
    compiled = Compiled()
    compiled._note(key="k", repr="attend[num_warps=4](num_rows: i32)", already_compiled=False)
    assert compiled.names == ["attend[num_warps=4](num_rows: i32)"]
