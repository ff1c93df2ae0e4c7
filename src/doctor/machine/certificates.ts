/** Checks the certificates of the API and of the mail ports: dates, names, chain and key. */
import { judgeCertificate } from '../../core/thresholds.ts';
import type { CheckContext } from '../check-context.ts';
import { type Finding, green, red, unknown, yellow } from '../finding.ts';
import type { Check } from '../run-checks.ts';

export const CERTIFICATES: Check = {
  id: 'certificates',
  title: 'Certificates',
  run({ config, machine, world }) {
    const { refusals, conditions, served, selfSigned } = machine.findCertificateProblems();
    const findings = [
      ...refusals.map(refused),
      ...conditions.map((condition) => fromCondition(condition, world.now())),
    ];
    if (config.acme !== null) findings.push(...selfSigned.map(notYetIssued));
    else if (config.submissionPorts.length > 0 && config.tlsFiles === null) {
      findings.push(selfSignedMail());
    }
    if (findings.length > 0) return findings;
    if (served.length === 0) {
      return [unknown('No certificate is configured. A proxy may have one.')];
    }
    return [green(`The certificate of ${served.join(' and of ')} is valid.`)];
  },
};

function refused(problem: string): Finding {
  return red(problem, {
    subject: problem.split(':', 1)[0] ?? null,
    meaning: 'The next start fails.',
    remedy: 'Give the paths of a valid certificate and of its key (docs/tls.md).',
  });
}

function notYetIssued(what: string): Finding {
  return yellow(`The authority has not issued the certificate of ${what} yet.`, {
    meaning: 'Clients that verify it refuse to connect. A self-signed one is served meanwhile.',
    remedy:
      'Follow the remedy of the condition (docs/tls.md). The service orders the certificate again within 12 hours, or at the time that the authority names.',
    command: 'letterhaus attention',
  });
}

function selfSignedMail(): Finding {
  return yellow('The ports for submission have a self-signed certificate.', {
    meaning: 'Applications that verify it refuse to connect.',
    remedy: 'Set LETTERHAUS_ACME, or LETTERHAUS_TLS_CERT and LETTERHAUS_TLS_KEY (docs/tls.md).',
  });
}

type Condition = ReturnType<
  CheckContext['machine']['findCertificateProblems']
>['conditions'][number];

function fromCondition({ type, message, remedy, details = {} }: Condition, nowMs: number): Finding {
  const leftMs = Date.parse(String(details['ends_at'])) - nowMs;
  const lifeMs = Number(details['lifetime_seconds']) * 1_000;
  const isUrgent =
    type === 'certificate.mismatch' || judgeCertificate({ leftMs, lifeMs }) === 'urgent';
  return (isUrgent ? red : yellow)(message, {
    subject: typeof details['file'] === 'string' ? details['file'] : null,
    meaning: 'Clients that verify it refuse to connect, now or at its end.',
    remedy,
  });
}
