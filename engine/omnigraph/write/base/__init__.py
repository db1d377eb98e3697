"""What the other layers of ``write`` share: change sets, blocks of rows, violations."""
