"""What the two web servers share: the guard, uploads, errors, and running a server."""
