import pytest
from hypothesis import given
from hypothesis import strategies as st

from nrtsi.core.sizes import bytes_of
from nrtsi.errors import InputError


@given(st.integers(1, 2**50))
def test_a_number_of_bytes_is_itself(size):
    assert bytes_of(size) == bytes_of(str(size)) == bytes_of(f" {size} B ") == size


@pytest.mark.parametrize(
    ("text", "size"),
    [("2GiB", 2**31), ("512mb", 512_000_000), ("1.5 k", 1500), (".5M", 500_000), ("1tb", 10**12)],
)
def test_units_are_binary_with_an_i_and_decimal_without(text, size):
    assert bytes_of(text) == size


@pytest.mark.parametrize("size", ["", "much", "-1GB", "1XB", 0, -5, "0.2", True, 1e400])
def test_other_texts_are_refused(size):
    with pytest.raises(
        InputError, match="memory_limit must be a positive number of bytes or a text"
    ):
        bytes_of(size)
