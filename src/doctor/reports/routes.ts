/** Shows the newest reports of the doctor, and asks the nodes for a new run (doctor-watch.ts). For owners. */
import { z } from 'zod';
import { BY_SESSION } from '../../accounts/sessions/http-sessions.ts';
import type { Refusal } from '../../core/refusals.ts';
import type { Queryable } from '../../database/database.ts';
import { refuse } from '../../http/errors.ts';
import { requireOperator } from '../../http/operators.ts';
import { doc, failures, idSchema, time } from '../../http/schemas.ts';
import type { App, HttpServices } from '../../http/services.ts';
import { LEVELS } from '../finding.ts';
import { listReports, type NodeReport, requestRuns, RUN_AGAIN_AFTER_S } from '../report-store.ts';

const NODES_MAX = 100;
const TAGS = ['Operator'];

const TOO_SOON: Refusal = {
  refused: 'rate_limit_error',
  message:
    `The doctor ran less than ${RUN_AGAIN_AFTER_S} seconds ago, and its report is here. ` +
    'Wait a minute before the next run.',
};

export function registerDoctorRoutes(app: App, { db }: HttpServices): void {
  app.get('/v1/operator/doctor', {
    config: { access: 'session' },
    preHandler: requireOperator(db),
    schema: {
      summary: 'Show the newest reports of the doctor',
      description:
        'Returns for each running node what `letterhaus doctor` found there last, the worst first, and whether a run ' +
        'is in progress. For owners.',
      operationId: 'getDoctor',
      tags: TAGS,
      security: BY_SESSION,
      response: { 200: doctor, ...failures(404) },
    },
    handler: () => readDoctor(db),
  });
  app.post('/v1/operator/doctor', {
    config: { access: 'session' },
    preHandler: requireOperator(db),
    schema: {
      summary: 'Run the doctor now',
      description:
        'Asks each running node to run all checks, and returns at once. A run takes up to two minutes: read its ' +
        'progress with `GET`. A node runs the doctor once at a time and at most once a minute. For owners.',
      operationId: 'runDoctor',
      tags: TAGS,
      security: BY_SESSION,
      response: { 202: doctor, ...failures(404) },
    },
    handler: async (_request, reply) => {
      const asked = await requestRuns(db);
      const now = await readDoctor(db);
      const isRunning = now.nodes.some((node) => node.is_requested || node.running !== null);
      if (asked === 0 && !isRunning && now.nodes.length > 0) {
        return refuse(reply.header('retry-after', RUN_AGAIN_AFTER_S), TOO_SOON);
      }
      return reply.status(202).send(now);
    },
  });
}

async function readDoctor(db: Queryable) {
  const reports = await listReports(db, NODES_MAX);
  // Other requests do not need the code of the checks.
  const { CHECKS } = await import('../checks.ts');
  return { object: 'doctor' as const, nodes: reports.map((one) => nodeToWire(one, CHECKS.length)) };
}

function nodeToWire(node: NodeReport, checksTotal: number) {
  const { red, yellow, unknown, green, finishedAt, ageS } = node;
  return {
    id: node.instance,
    host: node.host,
    is_requested: node.isRequested,
    running: node.isRunning ? { checks_ended: node.checksEnded, checks_total: checksTotal } : null,
    finished_at: finishedAt?.toISOString() ?? null,
    age_seconds: ageS === null ? null : Math.max(0, Math.round(ageS)),
    checks: { red, yellow, unknown, green },
    findings: [...node.findings],
  };
}

const nullableText = (description: string, example: string) =>
  doc(z.string().nullable(), description, example);

const finding = z
  .object({
    check: doc(z.string(), 'Name of the check, as for `letterhaus doctor --only`.', 'reverse_dns'),
    title: doc(z.string(), 'Title of the check.', 'Reverse DNS'),
    level: z
      .enum(LEVELS)
      .describe(
        '`red` blocks sending or loses mail. `yellow` hurts delivery, or will become red. `unknown`: the ' +
          'check had no result. `green`: no problem was found.',
      ),
    subject: nullableText(
      'Address, name or path that was checked, or null for the installation.',
      '192.0.2.7',
    ),
    found: doc(z.string(), 'What was found.', '192.0.2.7 has no reverse DNS.'),
    meaning: nullableText('Effect on mail, or null.', 'Gmail refuses mail without it.'),
    remedy: nullableText('What to do, or null.', 'Set the PTR record where you rent the address.'),
    command: nullableText('Command for the shell, or null.', 'dig +short -x 192.0.2.7'),
    docs: doc(z.string(), 'Section of the documentation.', 'docs/doctor.md#reverse_dns'),
  })
  .meta({ id: 'DoctorFinding' });

const count = (level: string) =>
  z.int().describe(`Number of checks whose worst finding is ${level}.`);

const doctor = z
  .object({
    object: z.literal('doctor'),
    nodes: z
      .array(
        z.object({
          id: idSchema('The node: its data directory.'),
          host: doc(z.string(), 'Name of the machine.', 'mail1'),
          is_requested: z.boolean().describe('True when a run was asked for and has not begun.'),
          running: z
            .object({
              checks_ended: z.int().describe('Number of checks that have ended.'),
              checks_total: z.int().describe('Number of all checks.'),
            })
            .nullable()
            .describe('Progress of the run, or null when there is none.'),
          finished_at: time('End of the last run, or null before it.').nullable(),
          age_seconds: z.int().nullable().describe('Seconds since then, or null.'),
          checks: z.object({
            red: count('red'),
            yellow: count('yellow'),
            unknown: count('unknown'),
            green: count('green'),
          }),
          findings: z.array(finding).describe('Findings of the last run, the worst first.'),
        }),
      )
      .describe('The running nodes, at most 100.'),
  })
  .meta({ id: 'Doctor' });
