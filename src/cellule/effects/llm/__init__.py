"""`llm.generate`: one answer of a language model, from any server that speaks OpenAI's chat completions.

Reading order: `types` (asked and answered), `body` (the request as JSON), `answer` (the answer, whole or from
pieces), `stream` (server-sent events), `refusal` (a server's errors), `notes` (progress), `adapter`.
"""
