/**
 * SQL: whether an entry of the suppression list holds back mail. In the test environment, entries of simulator
 * addresses (mail/simulator-addresses.ts) are listed but hold back nothing.
 */
import { RESEND_DOMAIN, RESEND_NAMES, SIMULATOR_DOMAIN } from '../mail/simulator-addresses.ts';

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
