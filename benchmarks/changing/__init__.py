"""How soon does a job answer a port that becomes narrower while it trains?"""
