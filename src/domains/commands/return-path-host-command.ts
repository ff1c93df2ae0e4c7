/** `letterhaus domains return-path-host`: the host that receives the bounces of all domains. */
import type { Command } from 'commander';
import { type Api, apiCommand } from '../../cli/api.ts';
import type { Cli, CommandResult } from '../../cli/command.ts';

export function describeReturnPathHost(domains: Command, cli: Cli): void {
  apiCommand(domains, cli, {
    name: 'return-path-host',
    about: 'show or set the host that receives bounces',
    examples: ['domains return-path-host', 'domains return-path-host mail.example.com'],
    environment: 'none',
    run: (api, _options, [name]: [string?]) =>
      name === undefined ? showHost(api) : setHost(api, name),
  }).argument('[name]', 'such as mail.example.com; must resolve to one node or to all of them');
}

async function showHost({ client }: Api): Promise<CommandResult> {
  const data = await client.operator.returnPathHost();
  const { name: host, node_names: names } = data;
  const nodes = names.length === 0 ? 'no node with a full name yet' : names.join(', ');
  const where =
    host === null
      ? 'No host is set. The next node that starts sets it to its LETTERHAUS_HOSTNAME.'
      : `${host} receives the bounces of all domains: their MX records name it.`;
  return {
    data,
    text: `${where}\nA domain also verifies with the name of a node as its MX: ${nodes}.`,
  };
}

async function setHost({ client }: Api, newName: string): Promise<CommandResult> {
  const data = await client.operator.setReturnPathHost(newName);
  const { name, before, verified_domains: verified, node_names: nodes } = data;
  if (before === name || verified === 0) {
    return { data, text: `${name} receives the bounces of all domains.` };
  }
  const count = verified === 1 ? '1 verified domain has' : `${verified} verified domains have`;
  const until = nodes.includes(before ?? '')
    ? `While a node has the name ${before}, the current record also counts. Once no node has it, replace the record within 72 hours`
    : 'Replace the record within 72 hours';
  const text = [
    `${name} receives the bounces of all domains from now on; ${count} to publish it:`,
    `MX   send.<domain>   10 ${name}   instead of ${before ?? 'the current one'}.`,
    `${until}, or the domain fails and stops sending. ${name} needs an address record that leads to a node with LETTERHAUS_INBOUND_PORT.`,
  ].join('\n');
  return { data, text };
}
