"""The situation of a conversation, and its actions."""
