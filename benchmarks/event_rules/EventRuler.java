// Measures event-ruler on the rules and events of two files, for event_rules.py.
//
//     java -cp JARS EventRuler.java RULES EVENTS RUNS
//
// RULES has a rule per line, whose name is the number of its line, and EVENTS an event per line. It prints two lines of JSON:
// for each event the names of the rules that match, ascending; and for each run the mean nanoseconds of an event. They are CPU
// time of the thread that matches. Garbage collection and compilation are on other threads, and not in them.

import java.lang.management.ManagementFactory;
import java.lang.management.ThreadMXBean;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import software.amazon.event.ruler.GenericMachine;

public class EventRuler {
    private static final long WARM_UP_NS = 4_000_000_000L;
    private static final long RUN_NS = 200_000_000L;
    private static final ThreadMXBean THREADS = ManagementFactory.getThreadMXBean();

    public static void main(String[] arguments) throws Exception {
        List<String> rules = Files.readAllLines(Path.of(arguments[0]));
        List<String> events = Files.readAllLines(Path.of(arguments[1]));
        GenericMachine<Integer> machine = new GenericMachine<>();
        for (int number = 0; number < rules.size(); number++) {
            machine.addRule(number, rules.get(number));
        }
        List<List<Integer>> found = new ArrayList<>();
        for (String event : events) {
            List<Integer> names = new ArrayList<>(machine.rulesForJSONEvent(event));
            Collections.sort(names);
            found.add(names);
        }
        meanNanoseconds(machine, events, WARM_UP_NS);
        List<Double> means = new ArrayList<>();
        for (int run = 0; run < Integer.parseInt(arguments[2]); run++) {
            means.add(meanNanoseconds(machine, events, RUN_NS));
        }
        System.out.println(found);
        System.out.println(means);
    }

    /** Matches all events again and again until the time has passed; returns the mean time of an event. */
    private static double meanNanoseconds(GenericMachine<Integer> machine, List<String> events, long timeNs)
            throws Exception {
        long started = THREADS.getCurrentThreadCpuTime();
        long matched = 0;
        do {
            for (String event : events) {
                machine.rulesForJSONEvent(event);
            }
            matched += events.size();
        } while (THREADS.getCurrentThreadCpuTime() - started < timeNs);
        return (THREADS.getCurrentThreadCpuTime() - started) / (double) matched;
    }
}
