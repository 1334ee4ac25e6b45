"""Fine-tuning: training a model on a task, with distillation or gates where asked for."""
