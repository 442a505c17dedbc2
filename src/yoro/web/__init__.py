"""A classifier as a static web page: everything runs in the browser, and nothing is sent anywhere."""
