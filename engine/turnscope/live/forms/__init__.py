"""Request bodies and answers in the forms of other APIs: pure functions, a module per API, without network and without SDK."""
