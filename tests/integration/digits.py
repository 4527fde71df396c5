"""An easy task: say digits."""


def reward(prompts: list[str], responses: list[str]) -> list[float]:
    return [sum(c.isdigit() for c in said) / max(1, len(said)) for said in responses]
