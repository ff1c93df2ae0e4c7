/**
 * The list of commands and the file of each. Only the file of the given command is loaded, which keeps
 * `letterhaus --help` fast.
 */
import { Command, CommanderError } from 'commander';
import packageFile from '../../package.json' with { type: 'json' };
import {
  addExamples,
  type Cli,
  printFailure,
  examplesOf,
  type Failure,
  usageFailure,
} from './command.ts';

/** Adds a command's subcommands, options and action. */
export type Describe = (command: Command, cli: Cli) => void;

const COMMANDS: readonly { name: string; about: string; load: () => Promise<Describe> }[] = [
  {
    name: 'start',
    about: 'start the service',
    load: async () => (await import('./commands/start-command.ts')).describeStart,
  },
  {
    name: 'install',
    about: 'make a clone runnable for a service: install packages, build the dashboard',
    load: async () => (await import('./commands/install-command.ts')).describeInstall,
  },
  {
    name: 'projects',
    about: 'list and create projects, set their limits',
    load: async () => (await import('../accounts/projects/command.ts')).describeProjects,
  },
  {
    name: 'keys',
    about: 'create, list, rotate and revoke API keys',
    load: async () => (await import('../accounts/keys/command.ts')).describeKeys,
  },
  {
    name: 'members',
    about: 'list, invite and remove members, change their roles',
    load: async () => (await import('../accounts/members/command.ts')).describeMembers,
  },
  {
    name: 'owner',
    about: 'print a sign-in link for the owner or a locked-out member',
    load: async () => (await import('../accounts/members/owner-command.ts')).describeOwner,
  },
  {
    name: 'domains',
    about: 'add, verify, list, set up and remove sending domains',
    load: async () => (await import('../domains/commands/domains-command.ts')).describeDomains,
  },
  {
    name: 'send',
    about: 'send an email through the running service',
    load: async () => (await import('../emails/commands/send-command.ts')).describeSend,
  },
  {
    name: 'templates',
    about: 'create, change, preview, publish and remove email templates',
    load: async () =>
      (await import('../templates/commands/templates-command.ts')).describeTemplates,
  },
  {
    name: 'emails',
    about:
      'list and export emails, show one with its outcome, write its case file, cancel or reschedule it',
    load: async () => (await import('../emails/commands/emails-command.ts')).describeEmails,
  },
  {
    name: 'events',
    about: 'list events, or follow them as they happen',
    load: async () => (await import('../events/command.ts')).describeEvents,
  },
  {
    name: 'stats',
    about: 'count emails by outcome, by hour or by day',
    load: async () => (await import('../stats/command.ts')).describeStats,
  },
  {
    name: 'webhooks',
    about:
      'add, change, test and remove webhooks; list and replay deliveries; forward to this machine',
    load: async () => (await import('../webhooks/commands/webhooks-command.ts')).describeWebhooks,
  },
  {
    name: 'suppressions',
    about: 'list, add, remove, import and export suppressed addresses',
    load: async () => (await import('../suppressions/command.ts')).describeSuppressions,
  },
  {
    name: 'inbound',
    about: 'list and show received bounces, complaints and unmatched mail',
    load: async () => (await import('../inbound/command.ts')).describeInbound,
  },
  {
    name: 'requests',
    about: 'list requests to the API that failed or changed something',
    load: async () => (await import('../requests/command.ts')).describeRequests,
  },
  {
    name: 'limits',
    about: 'show the limits of a project and their remaining permits',
    load: async () => (await import('../accounts/limits/command.ts')).describeLimits,
  },
  {
    name: 'audit',
    about: 'show the audit log: who changed what',
    load: async () => (await import('../accounts/audit/command.ts')).describeAudit,
  },
  {
    name: 'status',
    about: 'show whether the service accepts and sends mail, and what needs attention',
    load: async () => (await import('../operator/status-command.ts')).describeStatus,
  },
  {
    name: 'queue',
    about: 'show the queue; retry, hold, release or drop mail in it',
    load: async () => (await import('../delivery/queue-control/queue-command.ts')).describeQueue,
  },
  {
    name: 'providers',
    about: 'list providers that refuse our mail, and try one now',
    load: async () => (await import('../delivery/blocks/providers-command.ts')).describeProviders,
  },
  {
    name: 'retention',
    about: 'show what delays the removal of old mail, and confirm it',
    load: async () => (await import('../retention/command.ts')).describeRetention,
  },
  {
    name: 'doctor',
    about: 'check network, DNS, machine, database and domains before and while mail flows',
    load: async () => (await import('../doctor/doctor-command.ts')).describeDoctor,
  },
  {
    name: 'go-live',
    about: 'go live with a domain: machine, DNS records, live key, first message, DMARC',
    load: async () => (await import('../go-live/go-live-command.ts')).describeGoLive,
  },
  {
    name: 'attention',
    about: 'list conditions that need an operator, since when, and what to do',
    load: async () => (await import('../operator/attention-command.ts')).describeAttention,
  },
  {
    name: 'reconcile',
    about: 'check that all accepted mail is accounted for, day by day',
    load: async () => (await import('../reconciliation/command.ts')).describeReconcile,
  },
  {
    name: 'log',
    about: 'find what happened to an address',
    load: async () => (await import('../emails/address-log/command.ts')).describeLog,
  },
  {
    name: 'explain',
    about: "explain a mail server's reply, or a bounce",
    load: async () => (await import('../emails/commands/explain-command.ts')).describeExplain,
  },
  {
    name: 'receipt-key',
    about: 'print the public key that signs case files',
    load: async () =>
      (await import('../emails/evidence/receipt-key-command.ts')).describeReceiptKey,
  },
  {
    name: 'verify-receipt',
    about: 'verify the signature of a case file, without a service',
    load: async () =>
      (await import('../emails/evidence/verify-receipt-command.ts')).describeVerifyReceipt,
  },
  {
    name: 'tls-report',
    about: "count TLS sessions with recipients' domains",
    load: async () => (await import('../delivery/route/tls-report-command.ts')).describeTlsReport,
  },
  {
    name: 'bench',
    about: 'measure the service on this machine',
    load: async () => (await import('./commands/bench-command.ts')).describeBench,
  },
  {
    name: 'secrets',
    about: 'replace the secret key, even a lost one',
    load: async () => (await import('../secrets/rotate-command.ts')).describeSecrets,
  },
  {
    name: 'migrate',
    about: "migrate the database to this version's schema",
    load: async () => (await import('./commands/migrate-command.ts')).describeMigrate,
  },
  {
    name: 'upgrade-check',
    about: 'show what an upgrade to this version would do, and change nothing',
    load: async () => (await import('./commands/upgrade-check-command.ts')).describeUpgradeCheck,
  },
  {
    name: 'backup',
    about: 'write a backup while mail flows, or check one',
    load: async () => (await import('../backup/commands/backup-command.ts')).describeBackup,
  },
  {
    name: 'restore',
    about: 'restore a backup into an empty database, on hold',
    load: async () => (await import('../backup/commands/restore-command.ts')).describeRestore,
  },
  {
    name: 'release',
    about: 'allow a restored installation to send, or show what it would send',
    load: async () => (await import('../backup/commands/release-command.ts')).describeRelease,
  },
  {
    name: 'move',
    about: 'move the database to another server or into the data directory, while mail flows',
    load: async () => (await import('../move/move-command.ts')).describeMove,
  },
  {
    name: 'login',
    about: 'save the address and the key of a service for further commands',
    load: async () => (await import('./commands/login-command.ts')).describeLogin,
  },
  {
    name: 'logout',
    about: 'delete the saved address and key of the service',
    load: async () => (await import('./commands/login-command.ts')).describeLogout,
  },
  {
    name: 'completion',
    about: 'print a script that completes commands in bash, zsh or fish',
    load: async () => (await import('./completion.ts')).describeCompletion,
  },
];

const EXAMPLES = [
  'start',
  'domains add yourdomain.com',
  "send --from hello@acme.test --to delivered@simulator.test --subject Hello --text 'Hi!'",
  'emails list',
] as const;
/** For a command with subcommands, --help shows one example of each of the first ones. */
const PARTS_SHOWN = 3;

/** Runs one command line and sets process.exitCode. @param argv without the names of node and script */
export async function runCommandLine(argv: readonly string[], cli: Cli): Promise<void> {
  const json = argv.includes('--json');
  const isCompletion = argv[0] === 'complete' && argv[1] === '--';
  const words = isCompletion ? argv.slice(2) : argv;
  const commandName = words.find((word) => !word.startsWith('-') && word !== 'help');
  const program = await createProgram(cli, { json, isLoaded: (name) => name === commandName });
  if (isCompletion) return cli.out((await import('./completion.ts')).complete(program, words));
  try {
    await program.parseAsync(argv, { from: 'user' });
  } catch (error) {
    if (!(error instanceof CommanderError)) {
      if (!json) throw error;
      printFailure(cli, internalFailure(error), json);
      process.exitCode = 1;
      return;
    }
    // commander exits with 1 for wrong usage. Here 2 means that repeating the command cannot succeed.
    process.exitCode = error.exitCode === 0 ? 0 : 2;
  }
}

/** Builds the tree of commands. Commands that are not loaded have only a name and a description. */
export async function createProgram(
  cli: Cli,
  { json, isLoaded }: { json: boolean; isLoaded: (name: string) => boolean },
): Promise<Command> {
  const program = new Command('letterhaus')
    .description('Self-hosted transactional email: send by one POST, delivered by this service.')
    .version(packageFile.version, '-v, --version', 'show the version')
    .configureOutput({
      writeOut: cli.out,
      writeErr: cli.err,
      outputError: (message, write) =>
        json ? printFailure(cli, usageFailureOf(message), json) : write(message),
    })
    .showHelpAfterError(json ? false : '(see --help)')
    // Options belong to the command before them: `queue` and `queue hold` share some names.
    .enablePositionalOptions()
    .exitOverride();
  addExamples(program, EXAMPLES);
  for (const { name, about, load } of COMMANDS) {
    const command = program.command(name).description(about).copyInheritedSettings(program);
    if (!isLoaded(name)) continue;
    (await load())(command, cli);
    if (examplesOf(command).length === 0) addExamplesOfParts(command);
  }
  return program;
}

function addExamplesOfParts(command: Command): void {
  const [first, ...others] = command.commands
    .slice(0, PARTS_SHOWN)
    .flatMap((part) => examplesOf(part).slice(0, 1));
  if (first !== undefined) addExamples(command, [first, ...others]);
}

/** @param message as commander prints it: `error: unknown …` */
const usageFailureOf = (message: string) => usageFailure(message.replace(/^error: /, '').trim());

/** Describes an error that no command expects. Without --json its stack is printed, too. */
function internalFailure(error: unknown): Failure {
  const failed = error instanceof Error ? error.message : String(error);
  return { failed, code: 'internal_error', exitCode: 1 };
}
