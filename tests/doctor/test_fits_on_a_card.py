"""Whether models fit on a card is told by what their files are kept in there."""

from localpaged import paths
from localpaged.config import Settings
from localpaged.devices import Device
from localpaged.doctor.fits import fit_facts
from localpaged.fitting.room import Room
from localpaged.memory_plan import packed_working_bytes
from localpaged.models.open_model import open_model
from testkit.gguf_files import save_tiny_gguf

GIB = 2**30
RTX = Device("cuda", 0, "RTX 4060", (8, 9), 8 * GIB, 7 * GIB)


def told(**settings):
    room = Room(RTX, 8 * GIB, 7 * GIB, 16 * GIB, 16 * GIB)
    (fact,) = fit_facts(Settings("m", context_tokens=64, **settings), room)
    assert fact.numbers["fits"] and "on cuda:0" in fact.value
    return fact.numbers["total_bytes"]


def test_a_file_in_4_bits_takes_what_it_takes_there_as_it_is(home):
    folder = paths.ensure_private_dir(paths.models_dir())
    opened = open_model(save_tiny_gguf(folder, "llama", quantisation="Q4_1"))
    wide = told(dtype="bfloat16") - opened.weight_bytes(2)
    rest = told() - opened.weight_bytes(2, "file")
    assert rest - wide == packed_working_bytes(opened.config)
    for form in ("int8", "int4"):
        assert told(dtype=form) - opened.weight_bytes(2, form) == rest
