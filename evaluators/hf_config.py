"""Reader of a Hugging Face config.json: the architecture of a decoder-only transformer."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from evaluators.catalogue import check_model
from evaluators.experiment import DataError, Model
from evaluators.fields import Fields, UnreadableError, did_you_mean, read_json

DENSE = frozenset({"llama", "mistral", "qwen2", "qwen3", "phi3", "yi", "granite"})
SPARSE = frozenset({"mixtral", "qwen2_moe", "qwen3_moe", "llama4", "llama4_text"})
KNOWN = DENSE | SPARSE


def read_hf_config(path: str | Path, name: str | None = None) -> Model | DataError:
    """Return the model that a config.json describes; ``name`` defaults to the file's own, then to its folder's."""
    file = Path(path)
    if file.is_dir():
        file = file / "config.json"
    try:
        whole = read_json(file)
        inner = whole.section("text_config") if whole.has("text_config") else whole
        return _model(whole, inner, name or _own_name(whole, file))
    except UnreadableError as problem:
        return problem.error


def _own_name(whole: Fields, file: Path) -> str:
    given = whole.text("_name_or_path", "").rsplit("/", 1)[-1]
    return given or file.resolve().parent.name


def _model(whole: Fields, at: Fields, name: str) -> Model:
    kind = _model_type(whole, at)
    hidden = at.integer("hidden_size", 1, 1 << 20)
    heads = at.integer("num_attention_heads", 1, 4096)
    layers = at.integer("num_hidden_layers", 1, 1000)
    if not at.has("head_dim") and hidden % heads:
        at.wrong("hidden_size", f"a multiple of the {heads} heads, or a head_dim")
    quantization = _quantization(whole, at)
    dense_ffn, moe = _mlps(at, kind, layers)
    model = Model(
        name=name,
        layers=layers,
        hidden=hidden,
        heads=heads,
        kv_heads=at.integer("num_key_value_heads", 1, 4096, heads),
        head_dim=at.integer("head_dim", 1, 4096, max(1, hidden // heads)),
        vocab=at.integer("vocab_size", 1, 1 << 24),
        ffn=0 if moe.layers == layers else dense_ffn,
        moe_layers=moe.layers,
        experts=moe.experts,
        experts_per_token=moe.per_token,
        expert_ffn=moe.ffn,
        shared_ffn=moe.shared_ffn,
        weight_bytes_per_param=_weight_bytes(quantization),
        kv_bytes_per_value=_kv_bytes(quantization),
        tied_embeddings=at.flag("tie_word_embeddings", whole.flag("tie_word_embeddings", False)),
    )
    return check_model(model, at)


@dataclass(frozen=True, slots=True)
class _Moe:
    layers: int = 0
    experts: int = 0
    per_token: int = 0
    ffn: int = 0
    shared_ffn: int = 0


def _model_type(whole: Fields, at: Fields) -> str:
    """Return the architecture family; refuse those whose layers `Model` cannot describe."""
    holder = at if at.has("model_type") else whole
    kind = holder.text("model_type").lower()
    if at.has("kv_lora_rank"):
        at.wrong("kv_lora_rank", "no latent attention (MLA, as in DeepSeek-V2 and V3): its cache is not described here")
    if kind not in KNOWN:
        holder.wrong("model_type", f"one of {sorted(KNOWN)}{did_you_mean(kind, sorted(KNOWN))}")
    return kind


def _mlps(at: Fields, kind: str, layers: int) -> tuple[int, _Moe]:
    """Return the width of a dense MLP and the mixture of experts."""
    width = at.integer("intermediate_size", 1, 1 << 22)
    if kind not in SPARSE:
        return width, _Moe()
    per_token = at.integer("num_experts_per_tok", 1, 4096)
    if kind == "mixtral":
        return 0, _Moe(layers, at.integer("num_local_experts", 1, 4096), per_token, width)
    if kind in {"llama4", "llama4_text"}:
        step = at.integer("interleave_moe_layer_step", 1, 1000, 1)
        experts = at.integer("num_local_experts", 1, 4096)
        listed = _layer_list(at, "moe_layers")
        sparse_layers = len(listed) if listed else layers // step
        return at.integer("intermediate_size_mlp", 1, 1 << 22), _Moe(sparse_layers, experts, per_token, width, width)
    step = at.integer("decoder_sparse_step", 1, 1000, 1)
    dense_only = _layer_list(at, "mlp_only_layers")
    sparse_layers = sum(1 for layer in range(layers) if (layer + 1) % step == 0 and layer not in dense_only)
    shared = at.integer("shared_expert_intermediate_size", 0, 1 << 22, 0)
    expert_ffn = at.integer("moe_intermediate_size", 1, 1 << 22)
    return width, _Moe(sparse_layers, at.integer("num_experts", 1, 4096), per_token, expert_ffn, shared)


def _layer_list(at: Fields, key: str) -> frozenset[int]:
    value = at.values.get(key) or []
    if not isinstance(value, list) or not all(isinstance(item, int) for item in value):
        at.wrong(key, "a list of layer numbers")
    return frozenset(value)


def _quantization(whole: Fields, at: Fields) -> Fields | None:
    for holder in (whole, at):
        if holder.has("quantization_config"):
            return holder.section("quantization_config")
    return None


def _weight_bytes(quantization: Fields | None) -> float:
    """Return bytes per weight; unquantised weights are served in 16 bits, whatever the file stores."""
    if quantization is None:
        return 2.0
    method = quantization.text("quant_method").lower()
    if method in {"fp8", "fbgemm_fp8"}:
        return 1.0
    if method in {"gptq", "awq", "gptq_marlin", "awq_marlin"}:
        return quantization.integer("bits" if quantization.has("bits") else "w_bit", 2, 8) / 8
    if method == "compressed-tensors":
        groups = quantization.section("config_groups")
        first = groups.section(next(iter(groups.values), "group_0"))
        return first.section("weights").integer("num_bits", 2, 16) / 8
    return quantization.wrong("quant_method", "fp8, fbgemm_fp8, gptq, awq or compressed-tensors")


def _kv_bytes(quantization: Fields | None) -> float:
    """Return bytes per cached key or value: one byte only where the file carries an 8-bit cache scheme."""
    if quantization is None or not quantization.has("kv_cache_scheme"):
        return 2.0
    return quantization.section("kv_cache_scheme").integer("num_bits", 4, 16) / 8
