"""/v1 in the shapes of OpenAI: conversations, responses and models, in front of any model server."""
