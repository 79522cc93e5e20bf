"""Laws are judged by what they find, not by how long a loaded machine takes."""

from hypothesis import settings

settings.register_profile("decisions", deadline=None)
settings.load_profile("decisions")
