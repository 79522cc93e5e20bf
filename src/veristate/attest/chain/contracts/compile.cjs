// Prints contracts.json: compiler, settings, and of each contract its source's SHA-256, ABI and bytecode.
// npm install --prefix FOLDER solc@0.8.35 && NODE_PATH=FOLDER/node_modules node compile.cjs > contracts.json
const { createHash } = require("crypto");
const { readFileSync } = require("fs");
const { join } = require("path");
const solc = require("solc");

const names = ["LogHeads", "OneWord", "ThreeBindings"];
// No metadata in the bytecode: it would bind the bytes to comments and file names.
const settings = {
  evmVersion: "cancun",
  metadata: { appendCBOR: false, bytecodeHash: "none" },
  optimizer: { enabled: true, runs: 1000000 },
  viaIR: true,
  outputSelection: { "*": { "*": ["abi", "evm.bytecode.object"] } },
};
const sources = {};
for (const name of names) sources[name + ".sol"] = { content: readFileSync(join(__dirname, name + ".sol"), "utf8") };
const output = JSON.parse(solc.compile(JSON.stringify({ language: "Solidity", sources, settings })));
if (output.errors) {
  for (const error of output.errors) process.stderr.write(error.formattedMessage + "\n");
  process.exit(1);
}
const contracts = {};
for (const name of names) {
  const compiled = output.contracts[name + ".sol"][name];
  contracts[name] = {
    source_sha256: createHash("sha256").update(sources[name + ".sol"].content).digest("hex"),
    abi: compiled.abi,
    bytecode: compiled.evm.bytecode.object,
  };
}
process.stdout.write(JSON.stringify({ compiler: "solc " + solc.version(), settings, contracts }, null, 1) + "\n");
