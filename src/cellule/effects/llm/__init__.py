"""`llm.generate`: one answer of a language model, from any server that speaks OpenAI's chat completions.

Reading order: `types` (asked and answered), `body` (the request as JSON), `answer` (whole, from pieces, or an
error), `adapter`.
"""
