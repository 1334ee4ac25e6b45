"""Layer-wise relevance propagation: rules around a forward pass, and what starts from them."""
