"""The rule of LangChain's message trimming."""
