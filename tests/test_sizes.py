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
    [("2GiB", 2**31), ("512mb", 512_000_000), ("1.5 k", 1536), (".5M", 2**19), ("1tb", 10**12)],
)
def test_units_are_binary_with_an_i_or_alone_and_decimal_with_a_b(text, size):
    assert bytes_of(text) == size


@pytest.mark.parametrize("size", ["", "much", "-1GB", "1 GB 2", "1XB", 0, -5, "0.2", True, 1e400])
def test_what_is_no_size_is_refused(size):
    with pytest.raises(InputError, match="memory must be a positive number of bytes or a text"):
        bytes_of(size)
