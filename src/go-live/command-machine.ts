/** The step about the machine: the checks of `letterhaus doctor` on which receivers decide. */
import { withContext } from '../doctor/command-context.ts';
import type { Finding } from '../doctor/finding.ts';
import { HOST_NAME } from '../doctor/network/host-name.ts';
import { OUTGOING_PORT_25 } from '../doctor/network/outgoing.ts';
import { REVERSE_DNS } from '../doctor/network/reverse-dns.ts';
import { runChecks } from '../doctor/run-checks.ts';
import type { GoLive, Step } from './command-step.ts';

export async function checkMachine({ cli, config, name }: GoLive): Promise<Step> {
  const parts = { config, configProblems: [], domain: name, isFresh: false };
  const reports = await withContext(cli, parts, (context) =>
    runChecks([HOST_NAME, REVERSE_DNS, OUTGOING_PORT_25], context),
  );
  const findings = reports.flatMap(({ findings: found }) => found);
  const reds = findings.filter(({ level }) => level === 'red');
  const lines = findings.flatMap(findingLines);
  const step = 'machine';
  if (reds.length === 0) {
    return {
      step,
      state: 'done',
      message: 'The machine may send mail.',
      lines,
      data: { findings },
    };
  }
  const message = `Receivers refuse mail from this machine: ${reds.length === 1 ? 'one thing is' : `${reds.length} things are`} wrong.`;
  return { step, state: 'todo', message, lines, data: { findings } };
}

function findingLines({ level, found, remedy, command }: Finding): string[] {
  return [
    `${level}: ${found}`,
    ...(remedy === null ? [] : [`  ${remedy}`]),
    ...(command === null ? [] : [`  $ ${command}`]),
  ];
}
