"""What the two web servers share: the guard, uploads, errors and the running of a server."""
