"""Language models whose body is the encoder of a translation model (M2M100's class).

transformers has no such class: its language models with this layer either do not send their
attention through the interface (XGLM) or have other positions (MBart). This file needs only torch
and transformers. It is copied into the folder of a saved model, which therefore loads without
headcount: `AutoModelForMaskedLM.from_pretrained(folder, trust_remote_code=True)`.
"""

from typing import Any

import torch
from torch import Tensor, nn
from transformers import M2M100Config
from transformers.masking_utils import create_causal_mask
from transformers.modeling_outputs import BaseModelOutput, CausalLMOutput, MaskedLMOutput
from transformers.models.m2m_100.modeling_m2m_100 import M2M100Encoder, M2M100PreTrainedModel

OWN_FILE = __name__.rpartition(".")[2]
"""Name of this file, which lies beside the modelling file of a model of these classes."""


class EncoderConfig(M2M100Config):
    """M2M100's configuration for a model that is only an encoder."""

    model_type = "m2m_100_encoder"
    _auto_class = "AutoConfig"  # makes transformers copy this file along with what it saves

    def __init__(self, **options: Any) -> None:
        fields: Any = {"is_encoder_decoder": False} | options
        super().__init__(**fields)


class _CausalEncoder(M2M100Encoder):
    """The encoder under a causal mask: every token sees itself and those before it."""

    def __init__(self, config: EncoderConfig) -> None:
        super().__init__(config)
        for layer in self.layers:
            attention: Any = layer.self_attn
            attention.is_causal = True  # if no mask is made, this says what it would be

    def forward(
        self, input_ids: Tensor, attention_mask: Tensor | None = None, **options: Any
    ) -> BaseModelOutput:
        """Hidden states of every token."""
        # Only the shape, number format and device of the embeddings are used.
        shaped = torch.empty(*input_ids.shape, 1, dtype=self.dtype, device=input_ids.device)
        # The last argument is named `past_key_values` up to transformers 5.23, then `cache`
        causal = create_causal_mask(self.config, shaped, attention_mask, None)
        return super().forward(input_ids, causal, **options)  # a 4-D mask is used as it is


class _EncoderWithHead(M2M100PreTrainedModel):
    """The encoder, with its embeddings reused as the output layer."""

    config: EncoderConfig
    config_class = EncoderConfig
    body: type[M2M100Encoder] = M2M100Encoder
    _tied_weights_keys = {"lm_head.weight": "model.embed_tokens.weight"}

    def __init__(self, config: EncoderConfig) -> None:
        super().__init__(config)
        self.model = self.body(config)
        self.lm_head = nn.Linear(config.d_model, config.vocab_size, bias=False)
        self.post_init()

    def _answer(self, kind: Any, *inputs: Tensor | None, **options: Any) -> Any:
        states = self.model(*inputs, **options)
        return kind(
            logits=self.lm_head(states.last_hidden_state),
            hidden_states=states.hidden_states,
            attentions=states.attentions,
        )


class EncoderForMaskedLM(_EncoderWithHead):
    """Predicts masked tokens from both sides."""

    _auto_class = "AutoModelForMaskedLM"

    def forward(
        self, input_ids: Tensor, attention_mask: Tensor | None = None, **options: Any
    ) -> MaskedLMOutput:
        """Logits of the token at every position."""
        return self._answer(MaskedLMOutput, input_ids, attention_mask, **options)


class EncoderForCausalLM(_EncoderWithHead):
    """Predicts the next token from those before it."""

    _auto_class = "AutoModelForCausalLM"
    body = _CausalEncoder

    def forward(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        use_cache: bool | None = None,
        **options: Any,
    ) -> CausalLMOutput:
        """Logits of the token after every position; there is no cache."""
        return self._answer(CausalLMOutput, input_ids, attention_mask, **options)
