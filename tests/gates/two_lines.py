"""A user's training script that got gates with two lines; torchrun can start it."""

import sys
from pathlib import Path
from typing import Any

import torch
from torch.utils.data import Dataset
from transformers import PreTrainedModel, Trainer, TrainerCallback, TrainingArguments

from headcount.gates import (
    GateTraining,
    HardConcrete,
    HeadGates,
    L0Penalty,
    Layout,
    Quota,
    Subset,
    gating,
)
from headcount.tap import examine
from tests import tiny

STEPS = 6


class Texts(Dataset):
    """Random sentences of one length, for the model to repeat."""

    def __len__(self) -> int:
        return 64

    def __getitem__(self, index: int) -> dict[str, torch.Tensor]:
        generator = torch.Generator().manual_seed(index)
        ids = torch.randint(tiny.FIRST_ID, tiny.VOCAB, (9,), generator=generator)
        return {"input_ids": ids, "attention_mask": torch.ones_like(ids), "labels": ids}


class Break(TrainerCallback):
    """A callback that ends the script after a step, as a kill would."""

    def on_save(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        raise KeyboardInterrupt


def made_gates(kind: str, model: PreTrainedModel) -> HeadGates:
    layout = Layout.each(examine(model).heads)
    if kind == "subset":
        return Subset(layout, [Quota(None, 4)], seed=3)
    return HardConcrete(layout, L0Penalty(layout, 0.02), seed=3, start=0.5)


def script(
    kind: str,
    out: Path,
    accumulate: int = 1,
    resume: bool = False,
    breaks: bool = False,
    weight_decay: float = 0.0,
    bf16: bool = False,
) -> tuple[PreTrainedModel, HeadGates, list[dict[str, float]]]:
    """Train a tiny BERT with gates."""
    model = tiny.MODELS["bert"]()
    for module in model.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = 0.0  # two processes have other masks than one
    gates = made_gates(kind, model)
    arguments = TrainingArguments(
        output_dir=str(out),
        max_steps=STEPS,
        per_device_train_batch_size=4,
        save_steps=3,
        gradient_accumulation_steps=accumulate,
        learning_rate=1e-3,
        logging_steps=1,
        use_cpu=True,
        report_to="none",
        disable_tqdm=True,
        seed=1,
        weight_decay=weight_decay,
        bf16=bf16,
        dataloader_pin_memory=False,
        average_tokens_across_devices=False,
    )
    callbacks = [GateTraining(gates, rate=0.1), *([Break()] if breaks else [])]
    with gating(model, gates):
        trainer = Trainer(model, arguments, train_dataset=Texts(), callbacks=callbacks)
        trainer.model_accepts_loss_kwargs = False
        trainer.train(resume_from_checkpoint=resume)
    return model, gates, trainer.state.log_history


if __name__ == "__main__":
    model, gates, history = script(sys.argv[1], Path(sys.argv[2]))
    torch.save(
        {"gates": gates.state_dict(), "model": model.state_dict()},
        Path(sys.argv[2]) / f"end-{torch.distributed.get_rank()}.pt",
    )
    # Otherwise a process that ends while the other still talks to it can abort.
    torch.distributed.barrier()
    torch.distributed.destroy_process_group()
