/** `letterhaus domains return-path-host`: the host that receives the bounces of all domains. */
import type { Command } from 'commander';
import { parseDomain } from '../../mail/address.ts';
import { readInstallation, setReturnPathHost } from '../../domains/mail-host-store.ts';
import { addCommand, type Cli, type Outcome, usageFailure } from '../command.ts';
import { withStore } from '../store.ts';

export function describeReturnPathHost(domains: Command, cli: Cli): void {
  addCommand(domains, cli, {
    name: 'return-path-host',
    about: 'show or set the host that receives bounces',
    examples: ['domains return-path-host', 'domains return-path-host mail.example.com'],
    run: changeReturnPathHost,
  }).argument('[name]', 'as mail.example.com; of one of the nodes, or leading to them all');
}

function changeReturnPathHost(cli: Cli, _: object, [wanted]: [string?]): Promise<Outcome> {
  if (wanted === undefined) return show(cli);
  const name = parseDomain(wanted);
  if (name !== null) return set(cli, name);
  const message = `${JSON.stringify(wanted)} is not fully qualified; write a whole host name, as mail.example.com.`;
  return Promise.resolve(usageFailure(message));
}

function show(cli: Cli): Promise<Outcome> {
  return withStore(cli, async ({ db }) => {
    const { returnPathHost: host, hosts } = await readInstallation(db);
    const names = [...new Set(hosts.map(({ name }) => name))];
    const nodes = names.length === 0 ? 'no node with a full name yet' : names.join(', ');
    const where =
      host === null
        ? 'Nothing is set: it will be the LETTERHAUS_HOSTNAME of the node that starts next.'
        : `${host} receives the bounces of all domains: their MX records name it.`;
    return {
      data: { object: 'return_path_host', name: host, node_names: names },
      text: `${where}\nA domain also verifies with the name of a node as its MX: ${nodes}.`,
    };
  });
}

function set(cli: Cli, name: string): Promise<Outcome> {
  return withStore(cli, async ({ db }) => {
    const { before, verified } = await setReturnPathHost(db, name);
    const { hosts } = await readInstallation(db);
    const data = { object: 'return_path_host', name, before, verified_domains: verified };
    if (before === name || verified === 0) {
      return { data, text: `${name} receives the bounces of all domains.` };
    }
    const count = verified === 1 ? '1 verified domain has' : `${verified} verified domains have`;
    const isOfNode = hosts.some((host) => host.name === before);
    const until = isOfNode
      ? `As long as a node is called ${before}, the record of today counts too; once none is, it has to be replaced within 72 hours`
      : 'It has to be replaced within 72 hours';
    const text = [
      `${name} receives the bounces of all domains from now on; ${count} to publish it:`,
      `MX   send.<domain>   10 ${name}   in place of ${before ?? 'the present one'}.`,
      `${until}, or the domain fails and stops sending. ${name} needs an address record that leads to a node with LETTERHAUS_INBOUND_PORT.`,
    ].join('\n');
    return { data, text };
  });
}
