"""A spec says what a job is asked to do. It holds what its job needs of the configuration, and nothing else.

It travels as canonical JSON in a rule's `params:`, on the command line, and in the record that the job leaves. Every
stage has a file of its own here, so that a new key of one stage makes no result of another stale.
"""

import argparse
from typing import Any, Self

from pydantic import ValidationError

from stcl.core.settings import Settings
from stcl.study.canonical import canonical


class Spec(Settings):
    """What the specs of all stages have in common."""

    def json_dict(self) -> dict[str, Any]:
        """The spec as plain JSON values, for records."""
        return self.model_dump(mode="json")

    def canonical(self) -> str:
        """The spec as text. Two specs are equal exactly when their texts are."""
        return canonical(self.json_dict())

    @classmethod
    def parse(cls, text: str) -> Self:
        """The spec from a command line. argparse shows what is wrong with it."""
        try:
            return cls.model_validate_json(text)
        except ValidationError as error:
            raise argparse.ArgumentTypeError(str(error)) from None
