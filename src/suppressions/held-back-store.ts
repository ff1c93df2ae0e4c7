/**
 * SQL: whether an entry of the suppression list holds back mail. In the test environment, entries of addresses with a
 * fixed outcome (delivery/attempt/simulator.ts) are listed but hold back nothing, because tests send to them again and
 * again.
 */
export const SIMULATOR_DOMAIN = 'simulator.test';
/** Domain of the test addresses that Resend documents. A name may have a label (`bounced+label`). */
export const RESEND_DOMAIN = 'resend.dev';
export const RESEND_NAMES = ['delivered', 'bounced', 'complained', 'suppressed'] as const;

/** @param row alias of a row of `suppressions` with a dot, or '' without an alias */
export const isSimulated = (row: string): string => `(${row}environment = 'test'
         and (${row}address_key like '%@${SIMULATOR_DOMAIN}'
              or ${row}address_key ~ '^(${RESEND_NAMES.join('|')})([+].*)?@${RESEND_DOMAIN}$'))`;

/**
 * Returns whether the entry `suppression` holds back mail. Only an entry that was found is compared, so other
 * mail costs nothing.
 * @param now the time
 */
export const holdsBack = (now: string): string =>
  `(suppression.expires_at is null or suppression.expires_at > ${now}) and not ${isSimulated('suppression.')}`;
