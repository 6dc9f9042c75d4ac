from hypothesis import assume, example, given
from hypothesis import strategies as st
from kafka.util import ensure_valid_topic_name

from assignors.leading import is_topic_name


@given(st.text(max_size=6) | st.text("aZ0._-", max_size=300))
@example("")
@example(".")
@example("..")
@example("...")
@example("a" * 249)
@example("a" * 250)
@example("²")
def test_names_are_judged_as_by_kafka_python(name: str) -> None:
    # It lets a line's end pass at the end of a name, which brokers do not.
    assume(not name.endswith("\n"))
    try:
        ensure_valid_topic_name(name)
    except (TypeError, ValueError):
        assert not is_topic_name(name)
    else:
        assert is_topic_name(name)


def test_a_line_does_not_end_in_a_name() -> None:
    assert not is_topic_name("a\n")
