"""Methods that choose heads. One file a method."""
