/** One of a few values. The browser shows the list that opens, so that it works on a phone as in other apps. */
import type { ReactNode } from 'react';
import { INPUT, Labelled, type Options } from './field.tsx';

const LOOK = `${INPUT} own-select`;

/**
 * @param props.chosen the value at first, in a form
 * @param props.value the present value, where a change acts at once
 */
export function Select(props: {
  label: string;
  name?: string;
  options: Options<string>;
  chosen?: string | undefined;
  value?: string | undefined;
  onChange?: (value: string) => void;
  hint?: ReactNode;
  error?: string | null;
}): ReactNode {
  const { label, name, options, chosen, value, onChange, hint, error } = props;
  return (
    <Labelled label={label} name={name} hint={hint} error={error}>
      {(control) => (
        <select
          {...control}
          name={name}
          {...(value === undefined ? { defaultValue: chosen } : { value })}
          onChange={(event) => onChange?.(event.target.value)}
          className={LOOK}
        >
          <OptionList options={options} />
        </select>
      )}
    </Labelled>
  );
}

/** A choice in a row of controls, without a label, because its options name their subject. */
export function InlineSelect(props: {
  label: string;
  options: Options<string>;
  value: string;
  onChange: (value: string) => void;
  className?: string;
}): ReactNode {
  const { label, options, value, onChange, className = '' } = props;
  return (
    <select
      aria-label={label}
      value={value}
      onChange={(event) => onChange(event.target.value)}
      className={`${LOOK} w-auto! max-w-full ${className}`}
    >
      <OptionList options={options} />
    </select>
  );
}

function OptionList({ options }: { options: Options<string> }): ReactNode {
  return options.map(([value, text]) => (
    <option key={value} value={value}>
      {text}
    </option>
  ));
}
