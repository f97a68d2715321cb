"""The catalogues of models and GPUs: TOML files of the project, and a user's own beside them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

from evaluators.experiment import DataError, Gpu, Model
from evaluators.fields import Fields, UnreadableError, did_you_mean, read_toml, refuse
from evaluators.physics import total_params

FOLDER = Path(__file__).parent / "catalogue"
DEFAULT_GPU = "H100-SXM-80GB"
PRECISION_BYTES = {"FP16": 2.0, "BF16": 2.0, "FP8": 1.0, "INT8": 1.0, "INT4": 0.5}

_VARIANT_WORDS = frozenset({"hf", "instruct", "chat", "it", "base"})
_ONE_BYTE = re.compile(r"-(fp8|w8a8|int8|w8a16)(-.*)?$")
_HALF_BYTE = re.compile(r"-(awq|gptq|w4a16|int4)(-.*)?$")


@dataclass(frozen=True, slots=True)
class Catalogue:
    """Known models and GPUs, each under every key that finds it."""

    models: tuple[tuple[str, Model], ...]
    gpus: tuple[tuple[str, Gpu], ...]


def load_catalogue(extra: Sequence[Path] = ()) -> Catalogue | DataError:
    """Return the project's catalogue, extended and overridden by the TOML files of a user, in order.

    A file may hold ``[[model]]`` and ``[[gpu]]`` tables; see catalogue/models.toml and catalogue/gpus.toml.
    """
    try:
        files = [FOLDER / "models.toml", FOLDER / "gpus.toml", *extra]
        models: dict[str, Model] = {}
        gpus: dict[str, Gpu] = {}
        for file in files:
            table = read_toml(file)
            _refuse_unknown(table, {"model", "gpu"})
            for entry in table.sections("model") if table.has("model") else ():
                model = _model(entry)
                models.update((_model_key(name), model) for name in (model.name, *entry.texts("aliases")))
            for entry in table.sections("gpu") if table.has("gpu") else ():
                gpu = _gpu(entry)
                gpus.update((_gpu_key(name), gpu) for name in (gpu.name, *entry.texts("aliases")))
    except UnreadableError as problem:
        return problem.error
    return Catalogue(tuple(models.items()), tuple(gpus.items()))


@cache
def project_catalogue() -> Catalogue:
    """Return the project's own catalogue; its files belong to the project, so an error in them is a bug."""
    catalogue = load_catalogue()
    if isinstance(catalogue, DataError):
        raise RuntimeError(str(catalogue))
    return catalogue


def load_models() -> tuple[Model, ...]:
    """Return every model of the project's catalogue once, in the order of the file."""
    return tuple(dict.fromkeys(model for _, model in project_catalogue().models))


def load_gpus() -> tuple[Gpu, ...]:
    """Return every GPU of the project's catalogue once, in the order of the file."""
    return tuple(dict.fromkeys(gpu for _, gpu in project_catalogue().gpus))


def find_model(name: str, catalogue: Catalogue | None = None) -> Model | DataError:
    """Return the model of a Hugging Face id, with or without organisation, in any case.

    A precision at the end of the name (``-FP8-dynamic``, ``-AWQ``) sets the bytes per weight.
    """
    known = dict((catalogue or project_catalogue()).models)
    plain = name.strip().rsplit("/", 1)[-1].lower()
    if (exact := known.get(_model_key(plain))) is not None:
        return exact
    for pattern, size in ((_ONE_BYTE, 1.0), (_HALF_BYTE, 0.5)):
        model = known.get(_model_key(pattern.sub("", plain)))
        if model is not None and pattern.search(plain):
            return with_weight_bytes(model, size)
    names = sorted({model.name for model in known.values()})
    meant = did_you_mean(name.rsplit("/", 1)[-1], names)
    want = f"a model of the catalogue{meant or ' (models.toml), or one described by its config.json or a TOML file'}"
    return DataError("catalogue", "model", f"`{name[:100]}`", want)


def with_weight_bytes(model: Model, size: float) -> Model:
    """Return the model with weights of ``size`` bytes, named after its precision."""
    suffix = {2.0: "", 1.0: "-FP8", 0.5: "-INT4"}.get(size, f"-{8 * size:g}bit")
    bare = re.sub(r"-(FP8|INT4|[0-9.]+bit)$", "", model.name)
    return replace(model, name=bare + suffix, weight_bytes_per_param=size)


def stated_weight_bytes(at: Fields, key: str = "precision") -> float:
    """Return the bytes per weight of a field such as ``FP8``.

    Raises:
        UnreadableError: a precision that is not in `PRECISION_BYTES`.
    """
    size = PRECISION_BYTES.get(at.text(key).upper())
    return at.wrong(key, f"one of {', '.join(PRECISION_BYTES)}") if size is None else size


def find_gpu(name: str, catalogue: Catalogue | None = None) -> Gpu | DataError:
    """Return the GPU of a name or alias such as ``H100``, in any case."""
    known = dict((catalogue or project_catalogue()).gpus)
    if (gpu := known.get(_gpu_key(name))) is not None:
        return gpu
    names = sorted({gpu.name for gpu in known.values()})
    want = f"a GPU of the catalogue{did_you_mean(name, names) or ': ' + ', '.join(names)}"
    return DataError("catalogue", "gpu", f"`{name[:100]}`", want)


def parameters(model: Model) -> int:
    """Return the number of weights: attention, gated MLPs or experts with router, norms, embeddings and LM head.

    Biases and vision towers are left out; both are far below 1 % of the models in the catalogue, but for the
    vision tower of Llama-4 (about 1 %).
    """
    norms = (2 * model.layers + 1) * model.hidden
    return int(total_params(model)) + norms


def check_model(model: Model, at: Fields) -> Model:
    """Return the model where its fields fit together.

    Raises:
        UnreadableError: query heads not a multiple of KV heads, or an MLP that is incomplete.
    """
    if model.heads % model.kv_heads:
        refuse(at.path, at.place("kv_heads"), str(model.kv_heads), f"a divisor of the {model.heads} query heads")
    if model.moe_layers > model.layers:
        refuse(at.path, at.place("moe_layers"), str(model.moe_layers), f"at most the {model.layers} layers")
    if model.moe_layers < model.layers and model.ffn == 0:
        refuse(at.path, at.place("ffn"), "0", "the width of the dense layers' MLP")
    if model.moe_layers and not 1 <= model.experts_per_token <= model.experts:
        refuse(at.path, at.place("experts_per_token"), str(model.experts_per_token), f"1 to {model.experts} experts")
    if model.moe_layers and model.expert_ffn == 0:
        refuse(at.path, at.place("expert_ffn"), "0", "the width of one expert")
    return model


def _model(entry: Fields) -> Model:
    _refuse_unknown(entry, set(Model.__dataclass_fields__) | {"aliases"})
    model = Model(
        name=entry.text("name"),
        layers=entry.integer("layers", 1, 1000),
        hidden=entry.integer("hidden", 1, 1 << 20),
        heads=entry.integer("heads", 1, 4096),
        kv_heads=entry.integer("kv_heads", 1, 4096),
        head_dim=entry.integer("head_dim", 1, 4096),
        vocab=entry.integer("vocab", 1, 1 << 24),
        ffn=entry.integer("ffn", 0, 1 << 22),
        moe_layers=entry.integer("moe_layers", 0, 1000, 0),
        experts=entry.integer("experts", 0, 4096, 0),
        experts_per_token=entry.integer("experts_per_token", 0, 4096, 0),
        expert_ffn=entry.integer("expert_ffn", 0, 1 << 22, 0),
        shared_ffn=entry.integer("shared_ffn", 0, 1 << 22, 0),
        weight_bytes_per_param=entry.number("weight_bytes_per_param", 0.25, 4, 2.0),
        kv_bytes_per_value=entry.number("kv_bytes_per_value", 0.25, 4, 2.0),
        tied_embeddings=entry.flag("tied_embeddings", False),
    )
    return check_model(model, entry)


def _gpu(entry: Fields) -> Gpu:
    _refuse_unknown(entry, set(Gpu.__dataclass_fields__) | {"aliases"})
    return Gpu(
        name=entry.text("name"),
        memory_bytes=entry.number("memory_bytes", 1e9, 1e13),
        hbm_bytes_per_s=entry.number("hbm_bytes_per_s", 1e9, 1e15),
        flops_per_s_16bit=entry.number("flops_per_s_16bit", 1e11, 1e18),
        flops_per_s_8bit=entry.number("flops_per_s_8bit", 1e11, 1e18),
        link_bytes_per_s=entry.number("link_bytes_per_s", 1e8, 1e14),
        gemm_efficiency=entry.number("gemm_efficiency", 0.01, 1),
        gemm_layer_us=entry.number("gemm_layer_us", 0, 1e4),
        gemm_growth=entry.number("gemm_growth", 0, 100),
        gemm_flops_efficiency=entry.number("gemm_flops_efficiency", 0.01, 1),
        elementwise_us=entry.number("elementwise_us", 0, 1e4),
        elementwise_us_at_128=entry.number("elementwise_us_at_128", 0, 1e4),
        allreduce_us=entry.number("allreduce_us", 0, 1e4),
    )


def _refuse_unknown(at: Fields, known: set[str]) -> None:
    names = sorted(known)
    for key in at.values:
        if key not in known:
            refuse(at.path, at.place(key), "an unknown key", f"one of {names}{did_you_mean(key, names)}")


def _model_key(name: str) -> str:
    words = re.split(r"[-_\s]+", name.strip().rsplit("/", 1)[-1].lower())
    return "-".join(word for word in words if word and word not in _VARIANT_WORDS)


def _gpu_key(name: str) -> str:
    return "-".join(re.split(r"[-_\s]+", name.strip().lower()))
