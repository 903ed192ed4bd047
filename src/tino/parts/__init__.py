"""The parts that models are composed of. Each declares its properties, records its sizes and scales itself."""
