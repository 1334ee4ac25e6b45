"""How representations evolve from layer to layer, under different training objectives."""
